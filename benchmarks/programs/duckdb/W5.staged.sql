-- Recursion is resolved by hand. An inverse adds nothing to what it came from; a rule that asks for a
-- Person and gives a class of persons adds no Person; only subOrganizationOf is a loop that stays.

CREATE TEMP TABLE University AS FROM names('University.tsv');
CREATE TEMP TABLE Department AS FROM names('Department.tsv');
CREATE TEMP TABLE ResearchGroup AS FROM names('ResearchGroup.tsv');
CREATE TEMP TABLE FullProfessor AS FROM names('FullProfessor.tsv');
CREATE TEMP TABLE AssociateProfessor AS FROM names('AssociateProfessor.tsv');
CREATE TEMP TABLE AssistantProfessor AS FROM names('AssistantProfessor.tsv');
CREATE TEMP TABLE Lecturer AS FROM names('Lecturer.tsv');
CREATE TEMP TABLE UndergraduateStudent AS FROM names('UndergraduateStudent.tsv');
CREATE TEMP TABLE GraduateStudent AS FROM names('GraduateStudent.tsv');
CREATE TEMP TABLE TeachingAssistant AS FROM names('TeachingAssistant.tsv');
CREATE TEMP TABLE ResearchAssistant AS FROM names('ResearchAssistant.tsv');
CREATE TEMP TABLE Course AS FROM names('Course.tsv');
CREATE TEMP TABLE GraduateCourse AS FROM names('GraduateCourse.tsv');
CREATE TEMP TABLE Publication AS FROM names('Publication.tsv');
CREATE TEMP TABLE takesCourse AS FROM pairs('takesCourse.tsv');
CREATE TEMP TABLE teacherOf AS FROM pairs('teacherOf.tsv');
CREATE TEMP TABLE teachingAssistantOf AS FROM pairs('teachingAssistantOf.tsv');
CREATE TEMP TABLE publicationAuthor AS FROM pairs('publicationAuthor.tsv');
CREATE TEMP TABLE advisor AS FROM pairs('advisor.tsv');
CREATE TEMP TABLE memberOf AS FROM pairs('memberOf.tsv');
CREATE TEMP TABLE worksFor AS FROM pairs('worksFor.tsv');
CREATE TEMP TABLE headOf AS FROM pairs('headOf.tsv');
CREATE TEMP TABLE subOrganizationOf AS FROM pairs('subOrganizationOf.tsv');
CREATE TEMP TABLE undergraduateDegreeFrom AS FROM pairs('undergraduateDegreeFrom.tsv');
CREATE TEMP TABLE mastersDegreeFrom AS FROM pairs('mastersDegreeFrom.tsv');
CREATE TEMP TABLE doctoralDegreeFrom AS FROM pairs('doctoralDegreeFrom.tsv');
CREATE TEMP TABLE researchInterest AS FROM pairs('researchInterest.tsv');
CREATE TEMP TABLE name AS FROM pairs('name.tsv');
CREATE TEMP TABLE emailAddress AS FROM pairs('emailAddress.tsv');
CREATE TEMP TABLE telephone AS FROM pairs('telephone.tsv');

CREATE TEMP TABLE degreeFrom AS
    FROM undergraduateDegreeFrom UNION FROM mastersDegreeFrom UNION FROM doctoralDegreeFrom;
CREATE TEMP TABLE hasAlumnus AS SELECT y AS x, x AS y FROM degreeFrom;
CREATE TEMP TABLE Alumnus AS SELECT DISTINCT x FROM degreeFrom;
CREATE OR REPLACE TEMP TABLE worksFor AS FROM worksFor UNION FROM headOf;
CREATE OR REPLACE TEMP TABLE memberOf AS FROM memberOf UNION FROM worksFor;
CREATE TEMP TABLE member AS SELECT y AS x, x AS y FROM memberOf;
CREATE OR REPLACE TEMP TABLE subOrganizationOf AS
    WITH RECURSIVE closed(x, y) AS (
        FROM subOrganizationOf
        UNION
        SELECT closed.x, step.y FROM closed JOIN subOrganizationOf AS step ON closed.y = step.x
    )
    FROM closed;

CREATE OR REPLACE TEMP TABLE University AS FROM University UNION SELECT y FROM degreeFrom;
CREATE TEMP TABLE Organization AS
    FROM University UNION FROM Department UNION FROM ResearchGroup
    UNION SELECT y FROM memberOf
    UNION SELECT x FROM subOrganizationOf UNION SELECT y FROM subOrganizationOf;
CREATE OR REPLACE TEMP TABLE Course AS
    FROM Course UNION FROM GraduateCourse
    UNION SELECT y FROM teacherOf UNION SELECT y FROM teachingAssistantOf;
CREATE TEMP TABLE Work AS FROM Course;
CREATE OR REPLACE TEMP TABLE Publication AS FROM Publication UNION SELECT x FROM publicationAuthor;
CREATE OR REPLACE TEMP TABLE TeachingAssistant AS
    FROM TeachingAssistant UNION SELECT x FROM teachingAssistantOf;

CREATE TEMP TABLE Person AS
    FROM FullProfessor UNION FROM AssociateProfessor UNION FROM AssistantProfessor UNION FROM Lecturer
    UNION FROM UndergraduateStudent UNION FROM GraduateStudent
    UNION FROM TeachingAssistant UNION FROM ResearchAssistant UNION FROM Alumnus
    UNION SELECT x FROM advisor UNION SELECT y FROM advisor
    UNION SELECT x FROM memberOf UNION SELECT x FROM teacherOf
    UNION SELECT x FROM emailAddress UNION SELECT x FROM telephone
    UNION SELECT y FROM publicationAuthor;
CREATE TEMP TABLE Chair AS
    SELECT DISTINCT headOf.x FROM headOf
    SEMI JOIN Department ON headOf.y = Department.x SEMI JOIN Person ON headOf.x = Person.x;
CREATE TEMP TABLE Professor AS
    FROM FullProfessor UNION FROM AssociateProfessor UNION FROM AssistantProfessor
    UNION FROM Chair UNION SELECT y FROM advisor;
CREATE TEMP TABLE Faculty AS FROM Professor UNION FROM Lecturer UNION SELECT x FROM teacherOf;
CREATE TEMP TABLE Employee AS
    FROM Faculty
    UNION SELECT worksFor.x FROM worksFor
    SEMI JOIN Organization ON worksFor.y = Organization.x SEMI JOIN Person ON worksFor.x = Person.x;
CREATE TEMP TABLE Student AS
    FROM UndergraduateStudent UNION FROM GraduateStudent
    UNION SELECT takesCourse.x FROM takesCourse
    SEMI JOIN Course ON takesCourse.y = Course.x SEMI JOIN Person ON takesCourse.x = Person.x;

CREATE TEMP TABLE affiliatedWith AS
    SELECT DISTINCT memberOf.x, above.y FROM memberOf JOIN subOrganizationOf AS above ON memberOf.y = above.x;
CREATE TEMP TABLE taughtBy AS
    SELECT DISTINCT takesCourse.x, teacherOf.x AS y FROM takesCourse JOIN teacherOf USING (y);
CREATE TEMP TABLE taughtByAdvisor AS
    SELECT DISTINCT advisor.x, teacherOf.y
    FROM advisor JOIN teacherOf ON advisor.y = teacherOf.x
    SEMI JOIN takesCourse ON advisor.x = takesCourse.x AND teacherOf.y = takesCourse.y;
CREATE TEMP TABLE publishedWith AS
    SELECT DISTINCT advisor.x, advisor.y
    FROM advisor JOIN publicationAuthor AS one ON one.y = advisor.x
    JOIN publicationAuthor AS other ON other.x = one.x AND other.y = advisor.y;
CREATE TEMP TABLE homeAlumnus AS
    SELECT DISTINCT memberOf.x, above.y
    FROM memberOf JOIN subOrganizationOf AS above ON memberOf.y = above.x
    JOIN degreeFrom ON degreeFrom.x = memberOf.x AND degreeFrom.y = above.y;
CREATE TEMP TABLE publishedIn AS
    SELECT DISTINCT publicationAuthor.x, worksFor.y
    FROM publicationAuthor JOIN worksFor ON publicationAuthor.y = worksFor.x;

SELECT
    (SELECT count(*) FROM University) + (SELECT count(*) FROM Department) + (SELECT count(*) FROM ResearchGroup)
    + (SELECT count(*) FROM FullProfessor) + (SELECT count(*) FROM AssociateProfessor) + (SELECT count(*) FROM AssistantProfessor)
    + (SELECT count(*) FROM Lecturer) + (SELECT count(*) FROM UndergraduateStudent) + (SELECT count(*) FROM GraduateStudent)
    + (SELECT count(*) FROM TeachingAssistant) + (SELECT count(*) FROM ResearchAssistant) + (SELECT count(*) FROM Course)
    + (SELECT count(*) FROM GraduateCourse) + (SELECT count(*) FROM Publication) + (SELECT count(*) FROM takesCourse)
    + (SELECT count(*) FROM teacherOf) + (SELECT count(*) FROM teachingAssistantOf) + (SELECT count(*) FROM publicationAuthor)
    + (SELECT count(*) FROM advisor) + (SELECT count(*) FROM memberOf) + (SELECT count(*) FROM worksFor)
    + (SELECT count(*) FROM headOf) + (SELECT count(*) FROM subOrganizationOf) + (SELECT count(*) FROM undergraduateDegreeFrom)
    + (SELECT count(*) FROM mastersDegreeFrom) + (SELECT count(*) FROM doctoralDegreeFrom) + (SELECT count(*) FROM researchInterest)
    + (SELECT count(*) FROM name) + (SELECT count(*) FROM emailAddress) + (SELECT count(*) FROM telephone)
    + (SELECT count(*) FROM Organization) + (SELECT count(*) FROM Person) + (SELECT count(*) FROM Employee)
    + (SELECT count(*) FROM Faculty) + (SELECT count(*) FROM Professor) + (SELECT count(*) FROM Chair)
    + (SELECT count(*) FROM Student) + (SELECT count(*) FROM Work) + (SELECT count(*) FROM Alumnus)
    + (SELECT count(*) FROM degreeFrom) + (SELECT count(*) FROM hasAlumnus) + (SELECT count(*) FROM member)
    + (SELECT count(*) FROM affiliatedWith) + (SELECT count(*) FROM taughtBy) + (SELECT count(*) FROM taughtByAdvisor)
    + (SELECT count(*) FROM publishedWith) + (SELECT count(*) FROM homeAlumnus) + (SELECT count(*) FROM publishedIn);
